"""Loops: each is a tick that does what there is to do and says how long to rest."""
