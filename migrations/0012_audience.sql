CREATE INDEX `contacts_search` ON `contacts` (`list_id`,`status`,`address_key`);--> statement-breakpoint
CREATE INDEX `newsletters_status` ON `newsletters` (`account_id`,`status`);