-- compatible_with: 15
-- The whole schema as of version 15. Lower versions were never released.
--
-- Every column that ends in _us is a time in microseconds since 1970 in UTC, every column that
-- ends in _ns a duration in nanoseconds. A text that is not known is empty. A client_key is the
-- configured name of a key, never the key itself.

-- One row per call.
CREATE TABLE calls (
	id              TEXT    NOT NULL PRIMARY KEY,
	time_us         BIGINT  NOT NULL,
	operation       TEXT    NOT NULL,
	dialect         TEXT    NOT NULL,
	stream          BOOLEAN NOT NULL,
	client_name     TEXT    NOT NULL,
	client_version  TEXT    NOT NULL,
	client_key      TEXT    NOT NULL,
	client_session  TEXT    NOT NULL,
	model_asked     TEXT    NOT NULL,
	model           TEXT    NOT NULL,
	upstream        TEXT    NOT NULL,
	account         TEXT    NOT NULL,
	outcome         TEXT    NOT NULL,
	class           TEXT    NOT NULL,
	status          BIGINT  NOT NULL,
	error           TEXT    NOT NULL,
	finish          TEXT    NOT NULL,
	first_byte_ns   BIGINT  NOT NULL,
	duration_ns     BIGINT  NOT NULL,
	input_tokens    BIGINT  NOT NULL,
	cached_tokens   BIGINT  NOT NULL,
	output_tokens   BIGINT  NOT NULL,
	thinking_tokens BIGINT  NOT NULL,
	bytes_in        BIGINT  NOT NULL,
	notes           TEXT    NOT NULL,               -- a JSON array, or empty
	replica         TEXT    NOT NULL DEFAULT '',    -- that recorded the call; empty in SQLite
	steps           TEXT    NOT NULL DEFAULT '',    -- the attempts, a JSON array, or empty
	counted         BOOLEAN NOT NULL DEFAULT FALSE, -- whether the call is in daily_usage
	client_status   BIGINT  NOT NULL DEFAULT 0,     -- the HTTP status that the client received
	replay_of       TEXT    NOT NULL DEFAULT ''     -- the call that this call repeats; or empty
);

-- Listings start with the newest call, and most queries for usage are about the last days.
CREATE INDEX calls_by_time ON calls (time_us, id);

-- Each start of the daemon reads the open calls, which are few.
CREATE INDEX calls_open ON calls (id) WHERE outcome = 'open';

-- An open call is not in daily_usage. A call that was cut off is added by the next upkeep.
CREATE INDEX calls_uncounted ON calls (time_us) WHERE NOT counted;

-- The usage of calls per UTC day and per combination of the columns that usage is grouped by.
-- Rows are never removed, also when the rows of their calls are.
CREATE TABLE daily_usage (
	-- Days since 1970 in UTC, of the time at which the calls began.
	day                BIGINT NOT NULL,
	client_key         TEXT   NOT NULL,
	client_name        TEXT   NOT NULL,
	model              TEXT   NOT NULL, -- the requested model if none answered
	upstream           TEXT   NOT NULL,
	account            TEXT   NOT NULL,
	calls              BIGINT NOT NULL,
	errors             BIGINT NOT NULL, -- calls that failed or were cut off
	input_tokens       BIGINT NOT NULL,
	cached_tokens      BIGINT NOT NULL,
	output_tokens      BIGINT NOT NULL,
	thinking_tokens    BIGINT NOT NULL,
	-- The part of calls with more than 200,000 input tokens, which providers charge more for. It
	-- is included above.
	long_input_tokens  BIGINT NOT NULL DEFAULT 0,
	long_cached_tokens BIGINT NOT NULL DEFAULT 0,
	long_output_tokens BIGINT NOT NULL DEFAULT 0,
	PRIMARY KEY (day, client_key, client_name, model, upstream, account)
);

-- One row per stored response. Unlike calls, responses contain conversations, because their
-- clients asked for them to be stored. The conversation is a path in response_items, so that its
-- beginning is stored once for all responses that share it.
CREATE TABLE stored_responses (
	id          TEXT   NOT NULL PRIMARY KEY,
	client_key  TEXT   NOT NULL,
	created_us  BIGINT NOT NULL,
	expires_us  BIGINT NOT NULL,
	-- The id of the last item of input and output; empty if there are none.
	items       BYTEA  NOT NULL,
	-- How many bytes of the items are input; -1: input and output are in plain.
	input_bytes BIGINT NOT NULL,
	-- The calls that items are named after; empty if they are in response_items.
	names       TEXT   NOT NULL,
	-- The id of the last large member that was cut out of the response; empty if none was.
	members     BYTEA  NOT NULL,
	response    BYTEA  NOT NULL, -- the response, with a NUL in place of each of these members
	-- The length of the input, the input and the output, if they are not items.
	plain       BYTEA  NOT NULL,
	-- The size of this row for the limit, without its items and members.
	bytes       BIGINT NOT NULL
);

-- Rows are removed in this order. All responses are kept for the same time, so the oldest expires
-- first.
CREATE INDEX stored_responses_by_end ON stored_responses (expires_us);

-- One or several consecutive items of conversations, or one member of a response. The id is a
-- digest of the key, the parent and the body. Only refs ever changes in a row.
CREATE TABLE response_items (
	id     BYTEA  NOT NULL PRIMARY KEY,
	parent BYTEA  NOT NULL, -- the id of the row before this one; empty if it is the first
	-- How many rows of stored_responses and response_items have this id; never 0.
	refs   BIGINT NOT NULL,
	-- The call that the items were first named after; empty if body contains their names.
	name   TEXT   NOT NULL,
	named  BYTEA  NOT NULL, -- a digest of the names of this row and of all rows before it
	body   BYTEA  NOT NULL  -- the items, with a NUL in place of name
);

-- The sums of stored_responses and response_items per key. A key without responses has no row.
CREATE TABLE response_totals (
	client_key TEXT   NOT NULL PRIMARY KEY,
	responses  BIGINT NOT NULL,
	items      BIGINT NOT NULL,
	bytes      BIGINT NOT NULL
);

-- Thought signatures of providers. A key is a digest, or the id of a tool call. Only the provider
-- can read a signature.
CREATE TABLE signatures (
	key        TEXT   NOT NULL PRIMARY KEY,
	value      TEXT   NOT NULL,
	seal       TEXT   NOT NULL, -- the kind of the signature
	expires_us BIGINT NOT NULL
);

-- Each transaction that adds signatures removes those that have expired.
CREATE INDEX signatures_by_expiry ON signatures (expires_us);

-- One row per account. A generation is never used twice, also not after the row was removed, so a
-- caller that has read a row before it was removed or changed cannot write it back.
CREATE TABLE accounts (
	upstream   TEXT    NOT NULL,
	email      TEXT    NOT NULL, -- in lower case
	refresh    TEXT    NOT NULL, -- the refresh token, encrypted for this upstream and email
	project_id TEXT    NOT NULL,
	enabled    BOOLEAN NOT NULL,
	state      TEXT    NOT NULL,
	reason     TEXT    NOT NULL,
	added_us   BIGINT  NOT NULL,
	place      BIGINT  NOT NULL, -- the first generation; orders accounts with equal added_us
	changed_us BIGINT  NOT NULL,
	generation BIGINT  NOT NULL,
	preferred  BOOLEAN NOT NULL DEFAULT FALSE, -- whether it is used first
	PRIMARY KEY (upstream, email)
);

-- An upstream has at most one preferred account.
CREATE UNIQUE INDEX accounts_preferred ON accounts (upstream) WHERE preferred;

-- A single row. changes grows with each change of accounts and cooldowns, removals included.
CREATE TABLE account_generation (
	last    BIGINT NOT NULL, -- the last generation that was used
	changes BIGINT NOT NULL DEFAULT 0
);
INSERT INTO account_generation (last) VALUES (0);

-- Until when an account is not used for a family of models in a quota pool.
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

-- The account that last answered a session, per family of models: prompt caches belong to an
-- account.
CREATE TABLE sessions (
	upstream   TEXT   NOT NULL,
	session    TEXT   NOT NULL,
	family     TEXT   NOT NULL,
	email      TEXT   NOT NULL,
	pool       TEXT   NOT NULL,
	expires_us BIGINT NOT NULL,
	PRIMARY KEY (upstream, session, family)
);

-- Each transaction that saves a session removes those that have expired.
CREATE INDEX sessions_by_end ON sessions (expires_us);

-- One row per replica that is alive, by the clock of the database. Only PostgreSQL has replicas.
CREATE TABLE replicas (
	id             TEXT   NOT NULL PRIMARY KEY,
	started_us     BIGINT NOT NULL,
	alive_until_us BIGINT NOT NULL
);

-- The requests per minute of keys that replicas count together, by the clock of the database. A
-- power failure may lose the count of the last minute.
CREATE TABLE key_requests (
	client_key TEXT   NOT NULL PRIMARY KEY,
	paid_us    BIGINT NOT NULL, -- when the full rpm is available again
	wait_us    BIGINT NOT NULL  -- not a time: how long the last request has to wait; 0 if it need not
);

-- Administrative acts. Rows older than a year, and the oldest of more than 100,000, are removed.
CREATE TABLE audit (
	id      TEXT   NOT NULL PRIMARY KEY,
	time_us BIGINT NOT NULL,
	action  TEXT   NOT NULL,
	actor   TEXT   NOT NULL,
	source  TEXT   NOT NULL, -- remote address, or user of the operating system
	object  TEXT   NOT NULL,
	detail  TEXT   NOT NULL,
	result  TEXT   NOT NULL, -- ok, or the class of the error
	call_id TEXT   NOT NULL
);
CREATE INDEX audit_by_time ON audit (time_us, id);
