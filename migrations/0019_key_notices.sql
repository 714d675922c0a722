ALTER TABLE `dkim_keys` ADD `notice_due_at` integer;--> statement-breakpoint
CREATE INDEX `dkim_keys_notices` ON `dkim_keys` (`notice_due_at`) WHERE notice_due_at is not null;