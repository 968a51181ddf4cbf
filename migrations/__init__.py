"""The schema, as plain SQL: one file a revision, up only; schema.sql is their sum, dumped and compared by a test."""
