/** @module Errors of a start that needs what another process holds. */
import { ConfigError } from '#platform/settings/config.ts'

/** Another process holds a resource that the service needs. */
export class InUseError extends ConfigError {}

/** Another process holds the data directory. */
export class DataDirInUseError extends InUseError {}
