/** @module Links between the screens of one area, such as those of received mail. */
import { Anchor, Group } from '@mantine/core'
import { Link, useRouterState } from '@tanstack/react-router'

interface AreaNavigationProps {
  /** Names the links for screen readers. */
  readonly label: string
  /** The first one is the start of the area, whose path all others begin with. */
  readonly links: readonly { readonly to: string; readonly label: string }[]
}

export function AreaNavigation({ label, links: [start, ...others] }: AreaNavigationProps) {
  const path = useRouterState({ select: ({ location }) => location.pathname })
  const current = others.find(({ to }) => path === to || path.startsWith(`${to}/`)) ?? start
  return (
    <Group component="nav" aria-label={label} gap="md">
      {[start, ...others].map(
        (link) =>
          link && (
            <Anchor
              key={link.to}
              component={Link}
              to={link.to}
              // Otherwise the start counts as the page of all screens below it.
              activeOptions={{ exact: true }}
              size="sm"
              {...(link === current && { 'aria-current': 'page', fw: 700, underline: 'always' as const })}
            >
              {link.label}
            </Anchor>
          ),
      )}
    </Group>
  )
}
