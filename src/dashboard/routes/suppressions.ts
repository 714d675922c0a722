import { createRoute, lazyRouteComponent } from '@tanstack/react-router'
import { parseSuppressionFilters, type SuppressionFilters } from '../screens/suppressions/filters.ts'
import { root } from './root.tsx'

/** The list: its filters, and the cursor of a page after the first. */
interface SuppressionsSearch extends SuppressionFilters {
  readonly cursor?: string
}

const MAX_CURSOR_LENGTH = 500

const suppressions = createRoute({
  getParentRoute: () => root,
  path: '/suppressions',
  validateSearch: (search: Record<string, unknown>): SuppressionsSearch => {
    const { cursor } = search
    return {
      ...parseSuppressionFilters(search),
      ...(typeof cursor === 'string' && cursor !== '' && { cursor: cursor.slice(0, MAX_CURSOR_LENGTH) }),
    }
  },
  component: lazyRouteComponent(() => import('../screens/suppressions.tsx'), 'SuppressionsScreen'),
})

const suppressionsImport = createRoute({
  getParentRoute: () => root,
  path: '/suppressions/import',
  component: lazyRouteComponent(() => import('../screens/suppressions-import.tsx'), 'SuppressionsImportScreen'),
})

export const suppressionRoutes = [suppressions, suppressionsImport] as const
