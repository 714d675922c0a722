/** @module CPU time, for tests of work that must stay cheap: unlike elapsed time, other programs do not change it. */

/** Milliseconds of CPU time that this process has used. */
export function cpuMs(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}
