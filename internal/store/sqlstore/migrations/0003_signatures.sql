-- Seals that providers put on their thinking, by keys that are digests or the ids of calls. They are opaque to us and
-- to everybody but the provider, and worthless without the conversation that they belong to.
CREATE TABLE signatures (
	key        TEXT   NOT NULL PRIMARY KEY,
	value      TEXT   NOT NULL,
	seal       TEXT   NOT NULL,
	expires_us BIGINT NOT NULL -- microseconds since 1970 in UTC
);

-- Every batch that is written removes what has expired.
CREATE INDEX signatures_by_expiry ON signatures (expires_us);
