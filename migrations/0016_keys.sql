CREATE TABLE `dkim_keys` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`domain_id` integer NOT NULL,
	`selector` text NOT NULL,
	`dkim_public_key` text NOT NULL,
	`dkim_private_key` blob,
	`ed25519_public_key` text,
	`ed25519_private_key` blob,
	`created_at` integer NOT NULL,
	`retired_at` integer
) STRICT;
--> statement-breakpoint
CREATE INDEX `dkim_keys_domain` ON `dkim_keys` (`domain_id`);--> statement-breakpoint
CREATE UNIQUE INDEX `dkim_keys_next` ON `dkim_keys` (`domain_id`) WHERE retired_at is null;--> statement-breakpoint
ALTER TABLE `domains` ADD `dkim_since` integer;