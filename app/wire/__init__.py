"""The one door for every outgoing request: addresses are vetted, time and bytes are bounded,
nothing is followed.
"""
