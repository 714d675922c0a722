import { Anchor, Text } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { Page } from '../parts/page.tsx'

export const NotFound = () => (
  <Page title="No such page">
    <Text>
      Nothing is at this address.{' '}
      <Anchor component={Link} to="/" underline="always">
        Overview
      </Anchor>
    </Text>
  </Page>
)
