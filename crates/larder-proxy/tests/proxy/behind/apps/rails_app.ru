# frozen_string_literal: true

# A Rails application in one file, which knows nothing of a cache in front of it.

require "rails"
require "action_controller/railtie"

class App < Rails::Application
  config.root = __dir__
  config.eager_load = true
  config.hosts = nil
  config.logger = Logger.new($stderr, level: :warn)
  config.log_level = :warn
  config.secret_key_base = "of a test"
  config.session_store :cookie_store, key: "_app"
  config.action_controller.allow_forgery_protection = true

  routes.append do
    %i[page news visits old stream].each { |action| get action.to_s, to: "app##{action}" }
    get "form", to: "app#form"
    post "form", to: "app#submit"
    post "upload", to: "app#upload"
  end
end

class AppController < ActionController::Base
  protect_from_forgery with: :exception, except: :upload
  rescue_from(ActionController::InvalidAuthenticityToken) { head :forbidden }

  CALLS = Concurrent::AtomicFixnum.new

  def page
    expires_in 60, public: true
    render plain: "page #{CALLS.increment}"
  end

  # Without a time each use is validated.
  def news
    CALLS.increment
    render plain: "the same news" if stale?(etag: "the same news", public: true)
  end

  def visits
    session[:visits] = session.fetch(:visits, 0) + 1
    render plain: "visits #{session[:visits]}"
  end

  def form
    render plain: form_authenticity_token
  end

  def submit
    redirect_to "#{request.base_url}/page"
  end

  def old
    redirect_to "/page"
  end

  def stream
    # Without this Rack reads the whole body for an ETag.
    headers["Last-Modified"] = Time.now.httpdate
    self.response_body = Enumerator.new do |parts|
      5.times do |number|
        parts << "part #{number}\n"
        sleep 0.1
      end
    end
  end

  def upload
    body = request.raw_post
    render plain: "#{body.bytesize} bytes, #{body.sum & 0xffff}"
  end
end

App.initialize!
run App
