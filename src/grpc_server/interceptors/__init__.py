"""What every call goes through, outermost first: observing, errors, deadline, admission.

Each is a function from a behaviour to a behaviour and is applied once per method when the server is built, so a call
pays for no look-up; none relies on the wire, so an in-process channel runs the same chain.
"""
