/**
 * @module Loads the files that are made at build time. In the executable `scripts/build.ts` replaces this module by one
 * that contains them, so that nothing there makes files; a run from sources makes them here.
 */
import type { AnyElysia } from 'elysia'
import { type BuiltFiles, compressWhenRead } from '#platform/http/built-files.ts'

/** Bundles the dashboard, in about a second. */
export async function loadDashboardFiles(): Promise<BuiltFiles> {
  const { bundleDashboard } = await import('./dashboard/bundle.ts')
  return compressWhenRead(await bundleDashboard())
}

/** Describes the routes under /v1, in less than a second. */
export async function loadDocsFiles(routes: readonly AnyElysia[]): Promise<BuiltFiles> {
  const { describeRoutes } = await import('./docs/documents.ts')
  return compressWhenRead(await describeRoutes(routes))
}
