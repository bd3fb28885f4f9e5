-- Which account of an upstream comes before all others. Until now that was the one with the earliest added_us, which was
-- moved for the purpose: whoever is first stays first. The times that were moved are lost.
ALTER TABLE accounts ADD COLUMN preferred BOOLEAN NOT NULL DEFAULT FALSE;

UPDATE accounts SET preferred = TRUE WHERE NOT EXISTS (
	SELECT 1 FROM accounts AS earlier
	WHERE earlier.upstream = accounts.upstream
		AND (earlier.added_us < accounts.added_us OR earlier.added_us = accounts.added_us AND earlier.place < accounts.place)
);

-- One for each upstream at most, whatever who writes may think.
CREATE UNIQUE INDEX accounts_preferred ON accounts (upstream) WHERE preferred;
