-- Several replicas may share this database, if it is one that can be shared. A call belongs to the replica that
-- recorded it, so that nobody takes the open calls of another for those of one that is gone.
ALTER TABLE calls ADD COLUMN replica TEXT NOT NULL DEFAULT '';

-- One row for each replica that is alive, or was until a moment ago. Times are the database's own.
CREATE TABLE replicas (
	id             TEXT   NOT NULL PRIMARY KEY,
	started_us     BIGINT NOT NULL,
	alive_until_us BIGINT NOT NULL
);

-- Grows with everything that is changed about accounts, removals and cooldowns included: who knows the number need not
-- read the rest.
ALTER TABLE account_generation ADD COLUMN changes BIGINT NOT NULL DEFAULT 0;

-- Which account a session was with last, for a family of models. Prompt caches are per account.
CREATE TABLE sessions (
	upstream   TEXT   NOT NULL,
	session    TEXT   NOT NULL,
	family     TEXT   NOT NULL,
	email      TEXT   NOT NULL,
	pool       TEXT   NOT NULL,
	expires_us BIGINT NOT NULL,
	PRIMARY KEY (upstream, session, family)
);

-- Each save clears away what has expired.
CREATE INDEX sessions_by_end ON sessions (expires_us);
