/** @module /v1/insights: paths, shapes and one call each. */
import { Elysia } from 'elysia'
import type { App } from '#features/app.ts'

export const insightRoutes = (_app: App) => new Elysia({ prefix: '/v1/insights' })
