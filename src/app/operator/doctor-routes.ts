/** @module /v1/operator/doctor: what the checks of `tassis doctor` found. Paths, schemas and one call each. */
import { Elysia } from 'elysia'
import { authenticated } from '#features/core/app/http.ts'
import { dataBody, isoTime } from '#platform/http/envelope.ts'
import { DataBody } from '#platform/http/schemas.ts'
import { type OperatorContext, operatorRoute } from './context.ts'
import { DoctorFindings } from './model.ts'

export const operatorDoctorRoutes = ({ doctorReport, recordView }: OperatorContext) =>
  new Elysia({ prefix: '/v1/operator' }).use(authenticated).get(
    '/doctor',
    async ({ actor }) => {
      await recordView(actor, { name: 'health' })
      const report = doctorReport()
      return dataBody({
        checked_at: report ? isoTime(report.at) : null,
        findings: (report?.findings ?? []).map(({ check, status, subject, message, fix }) => ({
          check,
          status,
          subject: subject ?? null,
          message,
          fix: fix === undefined || fix === '' ? null : fix,
        })),
      })
    },
    {
      response: DataBody(DoctorFindings),
      detail: operatorRoute(
        'Get what the checks of the service found',
        'The last run of the checks of `tassis doctor`, which the service makes every hour: names, network, machine and state.',
      ),
    },
  )
