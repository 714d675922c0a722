/** @module The setting of the metrics. */
import type { SettingValues } from '#platform/config.ts'
import { checked, parseHostPort } from '#platform/setting-kinds.ts'

export const metricsSettings = {
  metricsAddr: checked(
    '',
    'an address such as 127.0.0.1:9464 or [::1]:9464, or nothing',
    'Address and port of `/metrics` for Prometheus, in plain HTTP and without a key: give it one that only Prometheus reaches; empty: none.',
    (value) => value === '' || parseHostPort(value) !== undefined,
  ),
}

declare module '#platform/config.ts' {
  interface Config extends SettingValues<typeof metricsSettings> {}
}
