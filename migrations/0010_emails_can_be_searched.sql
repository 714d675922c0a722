-- By hand: drizzle-kit knows no virtual tables. What stands in the columns is in src/features/emails/search.ts.
CREATE VIRTUAL TABLE `email_search` USING fts5(account, recipient, sender, subject, tag, stream, content='', contentless_delete=1, tokenize='unicode61 remove_diacritics 2');
--> statement-breakpoint
INSERT INTO `email_search` (rowid, account, recipient, sender, subject, tag, stream)
SELECT id, 'a' || account_id,
  (SELECT group_concat(hex(lower(address)), ' ') FROM recipients WHERE email_id = emails.id),
  hex(lower(iif(instr(from_address, '<') = 0, from_address,
    rtrim(replace(from_address, rtrim(from_address, replace(from_address, '<', '')), ''), '>')))),
  subject,
  (SELECT group_concat(hex(value), ' ') FROM json_each(extra, '$.tags')),
  's' || stream_id
FROM emails ORDER BY id;
