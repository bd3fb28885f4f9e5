-- What the calls with long prompts cost, which providers charge more for: those with more than 200,000 input tokens. It is part of
-- the other sums. Days from before this step have none.
ALTER TABLE daily_usage ADD COLUMN long_input_tokens  BIGINT NOT NULL DEFAULT 0;
ALTER TABLE daily_usage ADD COLUMN long_cached_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE daily_usage ADD COLUMN long_output_tokens BIGINT NOT NULL DEFAULT 0;
