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
	notes           TEXT    NOT NULL
);
CREATE INDEX calls_by_time ON calls (time_us, id);
CREATE INDEX calls_open ON calls (id) WHERE outcome = 'open';
CREATE TABLE responses (
	id         TEXT   NOT NULL PRIMARY KEY,
	client_key TEXT   NOT NULL,
	created_us BIGINT NOT NULL,
	expires_us BIGINT NOT NULL,
	input      TEXT   NOT NULL,
	output     TEXT   NOT NULL,
	response   TEXT   NOT NULL
);
CREATE INDEX responses_by_end ON responses (expires_us);
CREATE TABLE signatures (
	key        TEXT   NOT NULL PRIMARY KEY,
	value      TEXT   NOT NULL,
	seal       TEXT   NOT NULL,
	expires_us BIGINT NOT NULL
);
CREATE INDEX signatures_by_expiry ON signatures (expires_us);
CREATE TABLE accounts (
	upstream   TEXT    NOT NULL,
	email      TEXT    NOT NULL,
	refresh    TEXT    NOT NULL,
	project_id TEXT    NOT NULL,
	enabled    BOOLEAN NOT NULL,
	state      TEXT    NOT NULL,
	reason     TEXT    NOT NULL,
	added_us   BIGINT  NOT NULL,
	place      BIGINT  NOT NULL,
	changed_us BIGINT  NOT NULL,
	generation BIGINT  NOT NULL,
	PRIMARY KEY (upstream, email)
);
CREATE TABLE account_generation (last BIGINT NOT NULL);
INSERT INTO account_generation (last) VALUES (0);
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
ALTER TABLE calls ADD COLUMN replica TEXT NOT NULL DEFAULT '';
CREATE TABLE replicas (
	id             TEXT   NOT NULL PRIMARY KEY,
	started_us     BIGINT NOT NULL,
	alive_until_us BIGINT NOT NULL
);
ALTER TABLE account_generation ADD COLUMN changes BIGINT NOT NULL DEFAULT 0;
CREATE TABLE sessions (
	upstream   TEXT   NOT NULL,
	session    TEXT   NOT NULL,
	family     TEXT   NOT NULL,
	email      TEXT   NOT NULL,
	pool       TEXT   NOT NULL,
	expires_us BIGINT NOT NULL,
	PRIMARY KEY (upstream, session, family)
);
CREATE INDEX sessions_by_end ON sessions (expires_us);
ALTER TABLE calls ADD COLUMN steps TEXT NOT NULL DEFAULT '';
ALTER TABLE accounts ADD COLUMN preferred BOOLEAN NOT NULL DEFAULT FALSE;
UPDATE accounts SET preferred = TRUE WHERE NOT EXISTS (
	SELECT 1 FROM accounts AS earlier
	WHERE earlier.upstream = accounts.upstream
		AND (earlier.added_us < accounts.added_us OR earlier.added_us = accounts.added_us AND earlier.place < accounts.place)
);
CREATE UNIQUE INDEX accounts_preferred ON accounts (upstream) WHERE preferred;
CREATE TABLE key_requests (
	client_key TEXT   NOT NULL PRIMARY KEY,
	paid_us    BIGINT NOT NULL,
	wait_us    BIGINT NOT NULL
);
CREATE TABLE daily_usage (
	day             BIGINT NOT NULL,
	client_key      TEXT   NOT NULL,
	client_name     TEXT   NOT NULL,
	model           TEXT   NOT NULL,
	upstream        TEXT   NOT NULL,
	account         TEXT   NOT NULL,
	calls           BIGINT NOT NULL,
	errors          BIGINT NOT NULL,
	input_tokens    BIGINT NOT NULL,
	cached_tokens   BIGINT NOT NULL,
	output_tokens   BIGINT NOT NULL,
	thinking_tokens BIGINT NOT NULL,
	PRIMARY KEY (day, client_key, client_name, model, upstream, account)
);
ALTER TABLE calls ADD COLUMN counted BOOLEAN NOT NULL DEFAULT FALSE;
CREATE INDEX calls_uncounted ON calls (time_us) WHERE NOT counted;
CREATE TABLE stored_responses (
	id          TEXT   NOT NULL PRIMARY KEY,
	client_key  TEXT   NOT NULL,
	created_us  BIGINT NOT NULL,
	expires_us  BIGINT NOT NULL,
	items       BYTEA  NOT NULL,
	input_bytes BIGINT NOT NULL,
	names       TEXT   NOT NULL,
	members     BYTEA  NOT NULL,
	response    BYTEA  NOT NULL,
	plain       BYTEA  NOT NULL,
	bytes       BIGINT NOT NULL
);
CREATE INDEX stored_responses_by_end ON stored_responses (expires_us);
CREATE TABLE response_items (
	id     BYTEA  NOT NULL PRIMARY KEY,
	parent BYTEA  NOT NULL,
	refs   BIGINT NOT NULL,
	name   TEXT   NOT NULL,
	named  BYTEA  NOT NULL,
	body   BYTEA  NOT NULL
);
CREATE TABLE response_totals (
	client_key TEXT   NOT NULL PRIMARY KEY,
	responses  BIGINT NOT NULL,
	items      BIGINT NOT NULL,
	bytes      BIGINT NOT NULL
);
CREATE TABLE audit (
	id      TEXT   NOT NULL PRIMARY KEY,
	time_us BIGINT NOT NULL,
	action  TEXT   NOT NULL,
	actor   TEXT   NOT NULL,
	source  TEXT   NOT NULL,
	object  TEXT   NOT NULL,
	detail  TEXT   NOT NULL,
	result  TEXT   NOT NULL,
	call_id TEXT   NOT NULL
);
CREATE INDEX audit_by_time ON audit (time_us, id);
ALTER TABLE calls ADD COLUMN client_status BIGINT NOT NULL DEFAULT 0;
ALTER TABLE daily_usage ADD COLUMN long_input_tokens  BIGINT NOT NULL DEFAULT 0;
ALTER TABLE daily_usage ADD COLUMN long_cached_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE daily_usage ADD COLUMN long_output_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE calls ADD COLUMN replay_of TEXT NOT NULL DEFAULT '';
CREATE TABLE schema_version (
	version    BIGINT NOT NULL PRIMARY KEY,
	name       TEXT   NOT NULL,
	applied_us BIGINT NOT NULL
);
INSERT INTO schema_version (version, name, applied_us) VALUES
	(1, '0001_calls', 1000000),
	(2, '0002_responses', 2000000),
	(3, '0003_signatures', 3000000),
	(4, '0004_accounts', 4000000),
	(5, '0005_replicas', 5000000),
	(6, '0006_steps', 6000000),
	(7, '0007_preferred', 7000000),
	(8, '0008_key_requests', 8000000),
	(9, '0009_daily_usage', 9000000),
	(10, '0010_response_items', 10000000),
	(11, '0011_audit', 11000000),
	(12, '0012_client_status', 12000000),
	(13, '0013_long_prompts', 13000000),
	(14, '0014_replay_of', 14000000);
INSERT INTO calls VALUES ('call', 1000000, 'generate', 'chat', TRUE, 'codex', '1', 'laptop', '', 'm', 'm', 'u', 'a@example.com',
	'done', '', 0, '', 'stop', 1, 2, 10, 0, 5, 0, 3, '', '', '', TRUE, 200, '');
INSERT INTO daily_usage VALUES (0, 'laptop', 'codex', 'm', 'u', 'a@example.com', 1, 0, 10, 0, 5, 0, 0, 0, 0);
INSERT INTO accounts VALUES ('u', 'a@example.com', 'SEALED', 'p', TRUE, 'ready', '', 1000000, 1, 1000000, 1, TRUE);
UPDATE account_generation SET last = 1, changes = 1;
INSERT INTO responses VALUES ('old', 'laptop', 0, 4000000000000000, '[1]', '[2]', '{}');
