-- One row for each answer that a client may come back to. Unlike calls these hold what was said: the client asked for it.
CREATE TABLE responses (
	id         TEXT   NOT NULL PRIMARY KEY,
	client_key TEXT   NOT NULL, -- the name of the key, never the key
	created_us BIGINT NOT NULL,
	expires_us BIGINT NOT NULL,
	input      TEXT   NOT NULL, -- a JSON array
	output     TEXT   NOT NULL, -- a JSON array
	response   TEXT   NOT NULL  -- a JSON object
);

-- Each save clears away what has expired.
CREATE INDEX responses_by_end ON responses (expires_us);
