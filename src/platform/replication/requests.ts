/** @module What operators ask of a cluster; the leader reads it with its next sign of life. */
import type { Postgres } from './postgres.ts'

type Queries = Pick<Postgres, 'query'>

/** Asks the leader to stop in order, so that a node takes over; '' is any. */
export const requestStepDown = (postgres: Queries, to: string): Promise<unknown> =>
  postgres.query('UPDATE tassis_cluster SET step_down = true, wanted = $1', [to])

export const withdrawStepDown = (postgres: Queries): Promise<unknown> =>
  postgres.query("UPDATE tassis_cluster SET step_down = false, wanted = ''")
