"""HTTP in: translates requests into verbs and outcomes into answers, and decides nothing."""
