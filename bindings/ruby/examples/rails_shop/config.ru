# frozen_string_literal: true

# Starts the shop: `puma --port 3000 config.ru`.

require_relative "app"

run Shop
