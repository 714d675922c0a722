ALTER TABLE `mailbox_messages` ADD `parse_error` text;--> statement-breakpoint
CREATE INDEX `mailbox_messages_unparsed` ON `mailbox_messages` (`id`) WHERE parse_error is not null;
