/** @module The setting for feedback loops. */
import type { SettingValues } from '#platform/config.ts'
import { list } from '#platform/setting-kinds.ts'

export const feedbackLoopSettings = {
  feedbackLoops: list(
    'Additional feedback loops whose complaints can pause an account if SPF or DKIM proves the sender: addresses, or domains with no other senders.',
    'a comma-separated list of lower-case addresses or domains, such as fbl@provider.example',
    (v) => /^(?:[^\s@A-Z]{1,64}@)?[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){1,10}$/.test(v),
  ),
}

declare module '#platform/config.ts' {
  interface Config extends SettingValues<typeof feedbackLoopSettings> {}
}
