/** @module Warns about settings of a service that sends mail, in its log and in `tassis check`. */
import { findHostnameWarnings } from '#features/setup/domains/hostname-warnings.ts'
import type { Config } from '#platform/settings/config.ts'
import { findPublicUrlWarnings } from './public-url-warnings.ts'

/** Returns no warnings in delivery mode `capture`, in which no mail leaves the machine. */
export const findSettingWarnings = (config: Config): readonly string[] =>
  config.delivery === 'capture'
    ? []
    : [...(config.delivery === 'direct' ? findHostnameWarnings(config) : []), ...findPublicUrlWarnings(config)]
