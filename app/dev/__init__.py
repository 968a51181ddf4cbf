"""What only a developer's machine needs: a Postgres of our own, no server to install."""
