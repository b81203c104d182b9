"""Group commit: what puts changes and reads into batches, and makes a durable commit of each."""
