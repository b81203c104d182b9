"""One process that writes the plants, for all processes that serve them.

SQLite allows one writer at a time. Several processes that write one file poll for its lock, and
mostly wait. So with several workers, one more process writes (`service`). Each worker sends it
batches of changes through a local socket (`remote`), and the process commits what all workers
have sent together.

The sockets have no address. So other users cannot write plants through them without a token, and
no cleaner of temporary files can remove them. Instead of an address, the processes inherit the two
ends of a pair of sockets. To connect, a worker makes another pair, and sends one end of it to the
process that writes, as a file descriptor (SCM_RIGHTS in unix(7)).
"""
