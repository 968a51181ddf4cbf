"""What happens: one module a verb with its SQL beside it. One call is one transaction, with no network inside."""
