/** @module Settings of system mail. */
import type { SettingValues } from '#platform/config.ts'
import { checked } from '#platform/setting-kinds.ts'
import { parseMailbox } from '#protocols/address/parse.ts'

export const systemMailSettings = {
  systemFrom: checked(
    '',
    'a mailbox such as Tassis <no-reply@example.com>, or nothing',
    'Sender of system mail (invitations, password resets, notices), an address at a verified domain of an account here; empty: no-reply at the first verified domain of the oldest account.',
    (v) => v === '' || parseMailbox(v).kind !== 'invalid',
  ),
  operatorEmail: checked(
    '',
    'an address such as ada@example.com, or nothing',
    'Address of the operator, who gets a mail when a check of `tassis doctor` turns bad, and when it is mended; best one whose mail does not depend on this server.',
    (v) => v === '' || parseMailbox(v).kind !== 'invalid',
  ),
}

declare module '#platform/config.ts' {
  interface Config extends SettingValues<typeof systemMailSettings> {}
}
