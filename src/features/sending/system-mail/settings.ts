/** @module The setting of system mail. */
import type { SettingValues } from '#platform/config.ts'
import { text } from '#platform/setting-kinds.ts'

export const systemMailSettings = {
  systemFrom: text(
    '',
    'Sender of system mail (invitations, password resets, notices), an address at a verified domain of an account here; empty: no-reply at the first verified domain of the oldest account.',
    'a mailbox such as Tassis <no-reply@example.com>',
  ),
}

declare module '#platform/config.ts' {
  interface Config extends SettingValues<typeof systemMailSettings> {}
}
