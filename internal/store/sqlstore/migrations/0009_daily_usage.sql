-- What calls cost, per UTC day and per everything that usage is grouped by. A sum outlives the rows of its calls. There are
-- as many rows as a day has different combinations, however many calls it has.
CREATE TABLE daily_usage (
	day             BIGINT NOT NULL, -- days since 1970 in UTC, of the moment at which a call began
	client_key      TEXT   NOT NULL,
	client_name     TEXT   NOT NULL,
	model           TEXT   NOT NULL, -- what answered, or else what was asked for
	upstream        TEXT   NOT NULL,
	account         TEXT   NOT NULL,
	calls           BIGINT NOT NULL,
	errors          BIGINT NOT NULL, -- calls that failed or were cut off
	input_tokens    BIGINT NOT NULL,
	cached_tokens   BIGINT NOT NULL,
	output_tokens   BIGINT NOT NULL,
	thinking_tokens BIGINT NOT NULL,
	PRIMARY KEY (day, client_key, client_name, model, upstream, account)
);

-- Whether a call is in the sums. An open call never is. Calls from before this step, and those of an older perigee that still
-- runs beside this one, are added in the background; until then usage reads their rows.
ALTER TABLE calls ADD COLUMN counted BOOLEAN NOT NULL DEFAULT FALSE;
CREATE INDEX calls_uncounted ON calls (time_us) WHERE NOT counted;
