/** @module The settings of contact imports and confirmation emails. */
import type { SettingValues } from '#platform/config.ts'
import { integer, size } from '#platform/setting-kinds.ts'
import { GiB, MiB } from '#platform/units.ts'

export const contactListSettings = {
  importMaxBytes: size(
    512 * MiB,
    1 * MiB,
    100 * GiB,
    'Maximum size of a contact CSV file in one import; the data folder holds it until it is imported.',
  ),
  confirmationDays: integer(7, 1, 365, 'How many days the link of a confirmation email (double opt-in) works.'),
  confirmationsPerMinute: integer(
    600,
    1,
    1_000_000,
    'Confirmation emails per minute and account for contacts that were added in bulk.',
  ),
}

declare module '#platform/config.ts' {
  interface Config extends SettingValues<typeof contactListSettings> {}
}
