/** @module The frame of a screen: heading, one primary action, content. */
import { Group, Stack, Title } from '@mantine/core'
import { type ReactNode, useEffect } from 'react'

interface PageProps {
  readonly title: string
  /** The primary action. */
  readonly action?: ReactNode
  readonly children: ReactNode
}

export function Page({ title, action, children }: PageProps) {
  useEffect(() => {
    document.title = `${title} · Tassis`
  }, [title])
  return (
    <Stack gap="lg" maw={1200}>
      <Group justify="space-between" align="flex-start">
        <Title order={1} size="h2" style={{ overflowWrap: 'anywhere', minWidth: 0 }}>
          <bdi>{title}</bdi>
        </Title>
        {action}
      </Group>
      {children}
    </Stack>
  )
}
