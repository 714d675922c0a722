/**
 * @module What is wrong with the settings of a service that sends mail, as sentences for its log and for `tassis
 * check`.
 */
import { listDiskLimitWarnings } from '#features/lifecycle/retention/disk-limit.ts'
import type { Config } from '#platform/config.ts'
import { findHostnameWarnings } from './hostname-warnings.ts'
import { findPublicUrlWarnings } from './public-url-warnings.ts'

/** None in mode `capture`, in which nothing leaves the machine. */
export const findSettingWarnings = (config: Config): readonly string[] =>
  config.delivery === 'capture'
    ? []
    : [
        ...(config.delivery === 'direct' ? findHostnameWarnings(config) : []),
        ...findPublicUrlWarnings(config),
        ...listDiskLimitWarnings(config),
      ]
