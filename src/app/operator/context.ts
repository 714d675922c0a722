/** @module What the operator's routes share, created once per service. */
import type { RunningSubmission } from '#features/drop-in/submission/start.ts'
import type { SettingReport } from '#platform/settings/config.ts'
import type { OpenedApp, RunningDelivery } from '../create.ts'
import type { DoctorReport } from '../doctor/doctor.ts'
import { createViewLog, type RecordView } from './view-log.ts'

export interface OperatorContext {
  readonly opened: OpenedApp
  /** Undefined while mail is not delivered. */
  readonly delivery: () => RunningDelivery | undefined
  /** Undefined until it has started. */
  readonly submission: () => RunningSubmission | undefined
  /** Undefined until the checks of `tassis doctor` have run. */
  readonly doctorReport: () => DoctorReport | undefined
  readonly isStopping: () => boolean
  /** Settings with their sources; empty when the service does not know them. */
  readonly settings: readonly SettingReport[]
  /** Of this program, for display. */
  readonly version: string
  readonly recordView: RecordView
}

export const createOperatorContext = (options: Omit<OperatorContext, 'recordView'>): OperatorContext => ({
  ...options,
  recordView: createViewLog(options.opened.app),
})
