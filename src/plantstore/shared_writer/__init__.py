"""One process that writes the plants, for all processes that serve them.

SQLite allows one writer at a time. Several processes that write one file poll for its lock, and
mostly wait. So with several workers, one more process writes (`service`). Each worker sends it
batches of changes through a local socket (`remote`), and the process commits what all workers
have sent together.

The socket lies in a folder that only the user of the service may enter. Otherwise, other users
could write plants without a token.
"""
