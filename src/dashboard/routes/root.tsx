/** @module The route that all screens are below: the frame around them. */
import { createRootRoute, lazyRouteComponent } from '@tanstack/react-router'
import { Shell } from '../parts/shell.tsx'
import { ErrorState } from '../parts/states.tsx'

export const root = createRootRoute({
  component: Shell,
  notFoundComponent: lazyRouteComponent(() => import('../screens/not-found.tsx'), 'NotFound'),
  errorComponent: ({ error, reset }) => <ErrorState error={error} onRetry={reset} />,
})
