-- One row for each sign-in. Nothing is left of one that is removed: what was read of it before can never be written
-- back, because generations are given out once only, whatever happens to the rows.
CREATE TABLE accounts (
	upstream   TEXT    NOT NULL,
	email      TEXT    NOT NULL, -- in lower case
	refresh    TEXT    NOT NULL, -- the refresh token, sealed for this upstream and email
	project_id TEXT    NOT NULL,
	enabled    BOOLEAN NOT NULL,
	state      TEXT    NOT NULL,
	reason     TEXT    NOT NULL,
	added_us   BIGINT  NOT NULL, -- microseconds since 1970 in UTC
	place      BIGINT  NOT NULL, -- the generation that it was added with: orders what was added at one time
	changed_us BIGINT  NOT NULL,
	generation BIGINT  NOT NULL,
	PRIMARY KEY (upstream, email)
);

-- The last generation that was given out, in its only row.
CREATE TABLE account_generation (last BIGINT NOT NULL);
INSERT INTO account_generation (last) VALUES (0);

-- When an account may be asked again for a family of models in a pool of quota.
CREATE TABLE cooldowns (
	upstream TEXT   NOT NULL,
	email    TEXT   NOT NULL,
	family   TEXT   NOT NULL,
	pool     TEXT   NOT NULL,
	until_us BIGINT NOT NULL,
	reason   TEXT   NOT NULL,
	PRIMARY KEY (upstream, email, family, pool),
	FOREIGN KEY (upstream, email) REFERENCES accounts (upstream, email) ON DELETE CASCADE
);
