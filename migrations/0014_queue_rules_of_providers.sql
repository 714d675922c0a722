ALTER TABLE `queue_rules` ADD `provider` text;--> statement-breakpoint
CREATE INDEX `queue_rules_provider` ON `queue_rules` (`provider`);