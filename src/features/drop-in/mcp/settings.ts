/** @module The setting of `tassis mcp`, which is a client of a service. */
import type { SettingValues } from '#platform/config.ts'
import { text } from '#platform/setting-kinds.ts'

export const mcpSettings = {
  apiKey: {
    ...text('', 'API key with which `tassis mcp` calls a service. Not used by the service itself.'),
    secret: true,
  },
}

declare module '#platform/config.ts' {
  interface Config extends SettingValues<typeof mcpSettings> {}
}
