-- By hand: drizzle-kit knows no virtual tables. src/features/sending/queue/search.ts describes the columns, whose
-- words now contain domains and accounts. The service fills the empty index in the background after its start.
DROP TABLE `email_search`;
--> statement-breakpoint
CREATE VIRTUAL TABLE `email_search` USING fts5(account, recipient, sender, subject, tag, stream, content='', contentless_delete=1, tokenize='unicode61 remove_diacritics 2');
