/** @module What the operator's routes share, created once per service. */
import type { RunningSubmission } from '#features/drop-in/submission/start.ts'
import { operatorsOnly } from '#platform/http/access.ts'
import { errorResponses } from '#platform/http/route-errors.ts'
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

/** What the API description says of a route of operators. */
export const operatorRoute = (
  summary: string,
  description?: string,
  errors: Parameters<typeof errorResponses>[0] = {},
) => ({
  summary,
  ...(description !== undefined && { description }),
  tags: ['Operator'],
  ...operatorsOnly,
  ...errorResponses(errors),
})
