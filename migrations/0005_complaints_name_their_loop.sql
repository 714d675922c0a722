ALTER TABLE `complaints` ADD `feedback_loop` text;--> statement-breakpoint
ALTER TABLE `resumed_figures` DROP COLUMN `complained`;