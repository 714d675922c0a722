CREATE TABLE `wordings` (
	`account_id` integer PRIMARY KEY NOT NULL,
	`name` text,
	`texts` text NOT NULL,
	`logo_hash` text,
	`logo_type` text,
	`logo_width` integer,
	`logo_height` integer,
	`logo` blob,
	`updated_at` integer NOT NULL,
	FOREIGN KEY (`account_id`) REFERENCES `accounts`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
--> statement-breakpoint
CREATE INDEX `wordings_logo` ON `wordings` (`logo_hash`) WHERE logo_hash is not null;