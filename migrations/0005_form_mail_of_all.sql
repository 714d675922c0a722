ALTER TABLE `form_asks` ADD `shared_mailbox` blob;--> statement-breakpoint
CREATE INDEX `form_asks_shared_mailbox` ON `form_asks` (`shared_mailbox`,`asked_at`) WHERE shared_mailbox is not null;