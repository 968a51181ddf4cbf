"""The proof. Real Postgres, real sockets, real processes; only what leaves the machine is faked."""
