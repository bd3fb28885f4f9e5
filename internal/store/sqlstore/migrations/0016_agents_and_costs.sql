-- The agents of a client, tokens that were written to the provider's cache, and costs that the
-- provider reports.

-- The client's names for the agent that sent the call, and for the agent that started that one.
ALTER TABLE calls ADD COLUMN client_agent TEXT NOT NULL DEFAULT '';
ALTER TABLE calls ADD COLUMN client_parent TEXT NOT NULL DEFAULT '';
-- A part of input_tokens; and the part of these that the cache keeps for an hour.
ALTER TABLE calls ADD COLUMN cache_write_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE calls ADD COLUMN cache_hour_tokens BIGINT NOT NULL DEFAULT 0;
-- In billionths of a dollar; -1 if the provider reports no cost.
ALTER TABLE calls ADD COLUMN charged_nano_usd BIGINT NOT NULL DEFAULT -1;

ALTER TABLE daily_usage ADD COLUMN cache_write_tokens BIGINT NOT NULL DEFAULT 0;
-- The rest is for prices. Calls with a cost of the provider's are in the charged_ columns, and
-- neither in cache_hour_tokens nor in the long_ columns.
ALTER TABLE daily_usage ADD COLUMN cache_hour_tokens BIGINT NOT NULL DEFAULT 0;
-- Without those that the cache keeps for an hour.
ALTER TABLE daily_usage ADD COLUMN long_cache_write_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE daily_usage ADD COLUMN charged_calls BIGINT NOT NULL DEFAULT 0;
ALTER TABLE daily_usage ADD COLUMN charged_nano_usd BIGINT NOT NULL DEFAULT 0;
ALTER TABLE daily_usage ADD COLUMN charged_input_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE daily_usage ADD COLUMN charged_cached_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE daily_usage ADD COLUMN charged_cache_write_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE daily_usage ADD COLUMN charged_output_tokens BIGINT NOT NULL DEFAULT 0;
