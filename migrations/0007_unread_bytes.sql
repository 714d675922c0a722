ALTER TABLE `agent_mailboxes` ADD `unread_bytes` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
UPDATE `agent_mailboxes` SET `unread_bytes` = (SELECT coalesce(sum(size_bytes), 0) FROM `mailbox_messages` WHERE mailbox_id = `agent_mailboxes`.id AND email_id IS NULL AND read_at IS NULL);
--> statement-breakpoint
CREATE INDEX `agent_mailboxes_unread` ON `agent_mailboxes` (`account_id`,`deleted_at`,`unread_count`,`unread_bytes`) WHERE deleted_at is null and unread_count > 0;
