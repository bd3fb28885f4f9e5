-- How much keys have asked of late, for replicas that count it together. One row for each key that has had an rpm; times are
-- the database's own. What is lost of it with the power is a minute's count.
CREATE TABLE key_requests (
	client_key TEXT   NOT NULL PRIMARY KEY, -- the name of the key, never the key
	paid_us    BIGINT NOT NULL, -- when its requests will all be a minute's due again: now or earlier, and it may make as many as it has
	wait_us    BIGINT NOT NULL  -- what who asked last was told to wait; 0: it was let through
);
