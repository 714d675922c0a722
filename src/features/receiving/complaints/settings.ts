/** @module The setting of feedback loops. */
import type { SettingValues } from '#platform/config.ts'
import { list } from '#platform/setting-kinds.ts'

export const feedbackLoopSettings = {
  feedbackLoops: list(
    'Further feedback loops whose complaints count toward the pause of an account, when SPF or DKIM proves the sender: addresses, or domains that nobody else sends from.',
    'a comma list of addresses or domains in lower case, such as fbl@provider.example',
    (v) => /^(?:[^\s@A-Z]{1,64}@)?[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){1,10}$/.test(v),
  ),
}

declare module '#platform/config.ts' {
  interface Config extends SettingValues<typeof feedbackLoopSettings> {}
}
